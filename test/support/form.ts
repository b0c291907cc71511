export interface FormPart {
  readonly name: string;
  readonly value: string | Buffer;
  readonly filename?: string;
  readonly contentType?: string;
}

export const BOUNDARY = 'test-boundary';
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** Encodes a multipart form with these parts (RFC 7578). */
export function form(...parts: FormPart[]): Buffer {
  const chunks = parts.flatMap(({ name, value, filename, contentType }) => [
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '' : `; filename="${filename}"`,
    contentType === undefined ? '' : `\r\nContent-Type: ${contentType}`,
    '\r\n\r\n',
    value,
    '\r\n',
  ]);
  return Buffer.concat([...chunks, `--${BOUNDARY}--\r\n`].map((chunk) => Buffer.from(chunk)));
}
