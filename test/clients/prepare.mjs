import { installOpenApiTools } from './tools.mjs';

/** Installs the OpenAPI generators and linters that the integration tests use. */
export default function prepare() {
  return installOpenApiTools();
}
