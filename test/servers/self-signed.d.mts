export interface SelfSigned {
  readonly certificate: string;
  readonly key: string;
  readonly certificatePath: string;
  readonly keyPath: string;
}

export function selfSigned(directory: string, name: string): Promise<SelfSigned>;
