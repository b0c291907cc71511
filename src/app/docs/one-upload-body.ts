import type { OpenAPIObject } from '@nestjs/swagger';

/** The media types in which an upload can be sent, by the value of `uploads` in the URL of the OpenAPI document. */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  form: 'multipart/form-data',
  json: 'application/json',
  bytes: 'application/octet-stream',
};

type Operations = Record<string, { requestBody?: { content: Record<string, unknown> } }>;

/**
 * The OpenAPI document with only one media type for uploads. Generators of clients that know one body per operation
 * would otherwise send a file as JSON. The unchanged document if `choice` names no media type.
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
