import { createRequire } from 'node:module';

/** Parses YAML, with the parser of @nestjs/swagger. */
export const { load: parseYaml } = createRequire(createRequire(import.meta.url).resolve('@nestjs/swagger'))('js-yaml') as { load: (text: string) => unknown };
