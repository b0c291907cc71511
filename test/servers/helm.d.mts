/** Whether Helm and the validator of manifests are installed here, or can be installed because Go and pip exist. */
export function isHelmAvailable(): boolean;

/** Installs Helm and the validator of manifests, outside the repository, unless they are installed. */
export function installHelm(): Promise<void>;

/** Runs Helm without a cluster, and returns its standard output. Rejects with its error output if it fails. */
export function runHelm(parameters: readonly string[]): Promise<string>;

/**
 * Parses manifests, and validates each object by the schema of each version of Kubernetes. Returns the objects of each
 * manifest.
 */
export function readManifests(manifests: readonly string[], versions: readonly string[]): Promise<{ objects: object[][]; problems: string[] }>;
