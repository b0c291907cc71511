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

/** How the service exports traces. */
export interface TracingEnvironment {
  readonly protocol: (typeof PROTOCOLS)[number];
  /** All variables of OpenTelemetry. Its SDK reads those that the service doesn't check. */
  readonly variables: Variables;
}

/**
 * The schema of the variables of OpenTelemetry (`OTEL_…`) that the service checks. Its result is undefined if no
 * variable asks for traces (by naming the exporter `otlp` or an endpoint), or if one switches them off.
 */
export const TRACING_VARIABLES = z
  .looseObject(TRACING_SCHEMAS)
  .transform((set): TracingEnvironment | undefined => {
    const isAsked = set.OTEL_TRACES_EXPORTER === 'otlp' || set.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined || set.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT !== undefined;
    const isOff = set.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || set.OTEL_TRACES_EXPORTER === 'none';
    if (!isAsked || isOff) return undefined;
    const variables = Object.fromEntries(Object.entries(set).filter(([name]) => name.startsWith('OTEL_'))) as Variables;
    return { protocol: set.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? set.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf', variables };
  });
