/** Whether Helm and the schemas of Kubernetes are available here: they are installed, or Go and pip exist to install them. */
export function isHelmAvailable(): boolean;

/** Installs both outside the repository unless they are installed. */
export function installHelm(): Promise<void>;

/** Runs Helm without a cluster, and returns what it prints on standard output. Rejects with its error output if it fails. */
export function runHelm(parameters: readonly string[]): Promise<string>;

/**
 * Parses manifests, and validates each object by the schema of each version of Kubernetes. Returns the objects of each
 * manifest.
 */
export function readManifests(manifests: readonly string[], versions: readonly string[]): Promise<{ objects: object[][]; problems: string[] }>;
