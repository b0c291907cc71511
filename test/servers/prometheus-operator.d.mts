export function isPrometheusOperatorAvailable(): boolean;
export function installPrometheusOperator(): Promise<void>;
/**
 * Resolves to what is wrong with each object that the operator's types can't hold: fields that they don't have, and values
 * of another type.
 */
export function problemsOfOperatorObjects(objects: readonly object[]): Promise<string[]>;
