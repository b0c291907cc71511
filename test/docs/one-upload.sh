# Starts the service with the environment as it is, stores one upload under the idempotency key $KEY, by default day-1, and
# stops the service. For sessions of pages about a store that has an upload already.
npm start > service.log &
service=$!
for i in $(seq 120); do grep -qs '^Ready' service.log || ! kill -0 $service && break; sleep 1; done
curl -sf -o service.log.answer 'http://127.0.0.1:3000/ingestHistoricalLoadData/upload_historical?customer_id=acme-energy&manufacturer=Landis%2BGyr&filename=nem12.csv' \
  -H 'Content-Type: text/csv' -H "Idempotency-Key: ${KEY:-day-1}" --data-binary @docs/examples/nem12_multiple_meters.csv
kill $service && wait $service
rm service.log service.log.answer
