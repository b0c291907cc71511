import { z } from 'zod';
import { httpUrl, oneOf, type Variables } from './variables.js';

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;

export const TRACING_SCHEMAS = {
  OTEL_SDK_DISABLED: z.string().optional(),
  OTEL_TRACES_EXPORTER: oneOf('otlp', 'none').optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: httpUrl.optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(...PROTOCOLS).optional(),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: oneOf(...PROTOCOLS).optional(),
};

export interface TracingEnvironment {
  readonly protocol: (typeof PROTOCOLS)[number];
  readonly variables: Variables;
}

/**
 * The schema of the tracing settings; they are undefined if no variable asks for traces, or one switches them off. The
 * variables aren't checked then, because they may be meant for other programs on the same machine.
 */
export const TRACING_VARIABLES = z.preprocess(
  (set) => (areTracesOn(set as Variables) ? set : undefined),
  z.looseObject(TRACING_SCHEMAS).transform(environmentOf).optional(),
);

export function areTracesOn(set: Variables): boolean {
  const { OTEL_TRACES_EXPORTER: exporter, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpointOfTraces } = set;
  const isOff = set.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || exporter === 'none';
  return !isOff && (exporter ?? endpoint ?? endpointOfTraces) !== undefined;
}

function environmentOf(set: z.infer<z.ZodObject<typeof TRACING_SCHEMAS>>): TracingEnvironment {
  const variables = Object.fromEntries(Object.entries(set).filter(([name]) => name.startsWith('OTEL_')));
  return { protocol: set.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? set.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf', variables };
}
