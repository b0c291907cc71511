/** Installs a version of Node unless it is there. Resolves to the path of the program. */
export function installNode(version: string): Promise<string>;
