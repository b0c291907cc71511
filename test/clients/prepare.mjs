import { installOpenApiTools } from './tools.mjs';

/** Installs the generators and linters that the integration tests use. */
export default function prepare() {
  return installOpenApiTools();
}
