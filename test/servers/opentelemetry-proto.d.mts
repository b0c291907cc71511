/** Whether the decoder of traces is installed, or can be installed. */
export function isDecoderAvailable(): boolean;
export function installDecoder(): Promise<void>;

/** Decodes the body of a request to `/v1/traces` in OTLP's protobuf form. In the result, ids are in base64. */
export function decodeTraces(body: Buffer): Promise<{ readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly { readonly name: string; readonly traceId: string }[] }[] }[] }>;
