/** Installs the linters and client generators for OpenAPI if they are missing. */
export function installOpenApiTools(): Promise<void>;
/** The path of a file in an installed npm package. */
export function toolPath(...names: string[]): string;
/** Runs a script of a Node tool, and returns all that it prints. Rejects when it fails. */
export function runNodeTool(script: string, parameters: readonly string[], cwd?: string): Promise<string>;
/** Runs Python with the tools, and returns all that it prints. Rejects when it fails. */
export function runPython(parameters: readonly string[], cwd?: string): Promise<string>;
