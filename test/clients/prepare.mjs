import { installOpenApiTools } from './tools.mjs';

export default function prepare() {
  return installOpenApiTools();
}
