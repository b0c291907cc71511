import type { OpenAPIObject } from '@nestjs/swagger';

/**
 * The only media type that the OpenAPI document has for the body of an upload, by the value of the query parameter
 * `uploads` with which a client requests the document.
 */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  form: 'multipart/form-data',
  json: 'application/json',
  bytes: 'application/octet-stream',
};

type Operations = Record<string, { requestBody?: { content: Record<string, unknown> } }>;

/**
 * Returns the OpenAPI document with only one media type for the body of an upload: the one that `choice` (`form`,
 * `json` or `bytes`) selects. A generator of clients that supports only one body per operation might otherwise choose
 * JSON, and its clients would send files as JSON. Any other `choice` returns the document unchanged.
 */
export function withOneUploadBody(document: OpenAPIObject, choice: unknown): OpenAPIObject {
  const chosen = typeof choice === 'string' && Object.hasOwn(CONTENT_TYPES, choice) ? CONTENT_TYPES[choice] : undefined;
  if (chosen === undefined) return document;
  const copy = structuredClone(document);
  for (const operations of Object.values(copy.paths)) {
    for (const { requestBody } of Object.values(operations as Operations)) {
      if (requestBody && chosen in requestBody.content && Object.keys(requestBody.content).length > 1) {
        requestBody.content = { [chosen]: requestBody.content[chosen] };
      }
    }
  }
  return copy;
}
