import { isBrowser, type RequestContent } from './transport.js';

/**
 * The file to upload: a `File` or `Blob`, bytes, text (sent as UTF-8), a stream, or a function that opens a stream. A
 * stream can be read only once, so its upload isn't repeated after a failure, except where the client reads the whole
 * stream first: in browsers, and for a form. A function makes repeats possible everywhere.
 */
export type FileSource = Blob | Uint8Array | string | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>);

type Stream = Exclude<FileSource, Blob | Uint8Array | string>;

/**
 * Converts text and bytes to a Blob; in browsers also a stream, because their `fetch` sends no streams over HTTP/1.1.
 */
export async function blobOrStream(source: FileSource): Promise<Blob | Stream> {
  if (source instanceof Blob) return source;
  if (typeof source === 'string' || source instanceof Uint8Array) return new Blob([source]);
  return isBrowser() ? collected(source) : source;
}

/** Converts any source to a Blob. A stream is read to its end. */
export async function collected(source: FileSource): Promise<Blob> {
  if (typeof source === 'function' || source instanceof ReadableStream) return new Response(typeof source === 'function' ? source() : source).blob();
  return source instanceof Blob ? source : new Blob([source]);
}

/** An upload request whose body consists of the file's bytes alone. */
export function fileContent(file: Blob | Stream, contentType: string): RequestContent {
  if (file instanceof Blob) return { contentType, size: file.size, isRepeatable: true, whole: () => file, open: () => ({ bytes: file.stream(), contentType }) };
  const open = typeof file === 'function' ? file : () => file;
  return { contentType, size: undefined, isRepeatable: typeof file === 'function', whole: undefined, open: () => ({ bytes: open(), contentType }) };
}

/** An upload request whose body is a form with the file, and with `additional_data` if there is any. */
export function formContent(file: Blob, filename: string, additionalData: string | undefined): RequestContent {
  const whole = (): FormData => {
    const form = new FormData();
    // `additional_data` is a Blob, because a form changes the line breaks of a text to CRLF.
    if (additionalData !== undefined) form.append('additional_data', new Blob([additionalData]));
    form.append('file', file, filename);
    return form;
  };
  const open = (): ReturnType<RequestContent['open']> => {
    const { body, headers } = new Response(whole());
    return { bytes: body as ReadableStream<Uint8Array>, contentType: headers.get('Content-Type') ?? '' };
  };
  // The runtime sets the content type, because it chooses the boundary of the form.
  return { contentType: undefined, size: file.size, isRepeatable: true, whole, open };
}
