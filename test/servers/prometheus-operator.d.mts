export function isPrometheusOperatorAvailable(): boolean;
export function installPrometheusOperator(): Promise<void>;
/** Resolves to the defects of objects: fields that the operator's types don't have, and values of another type. */
export function problemsOfOperatorObjects(objects: readonly object[]): Promise<string[]>;
