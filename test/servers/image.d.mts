import type { ExecFileOptions } from 'node:child_process';

export function buildah(parameters: readonly string[], options?: ExecFileOptions): Promise<string>;
export function missingForImage(): string | undefined;
export function prepareBase(): Promise<string>;
export function buildImage(options: { readonly revision: string }): Promise<string>;
