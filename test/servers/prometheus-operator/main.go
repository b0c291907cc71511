// Reads an array of objects of the Prometheus Operator as JSON, and decodes each into the operator's own type. Prints an
// array of what is wrong: fields that the type doesn't have, and values of another type.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

func check(object []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(object, &head); err != nil {
		return err
	}
	types := map[string]any{"PrometheusRule": &monitoringv1.PrometheusRule{}, "ServiceMonitor": &monitoringv1.ServiceMonitor{}}
	into, known := types[head.Kind]
	if !known || head.APIVersion != monitoringv1.SchemeGroupVersion.String() {
		return fmt.Errorf("there is no %s %s", head.APIVersion, head.Kind)
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		log.Fatal(err)
	}
	problems := []string{}
	for _, object := range objects {
		if err := check(object); err != nil {
			problems = append(problems, fmt.Sprintf("%v in %s", err, object))
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(problems); err != nil {
		log.Fatal(err)
	}
}
