import type { OpenAPIObject } from '@nestjs/swagger';

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  form: 'multipart/form-data',
  json: 'application/json',
  bytes: 'application/octet-stream',
};

type Operations = Record<string, { requestBody?: { content: Record<string, unknown> } }>;

/**
 * Returns the OpenAPI document with one media type for the body of an upload: that of `choice` (`form`, `json` or
 * `bytes`). For any other `choice`, returns the document unchanged. A client from a generator that supports one body
 * per operation might otherwise send files as JSON.
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
