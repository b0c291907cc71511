import type { DynamicModule } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { Environment } from '../configuration/service.js';
import type { UploadEvents } from '../ingestion/application/ports/upload-events.port.js';
import { MeasuredUploadEvents } from '../operations/metrics/measured-upload-events.js';
import { Metrics } from '../operations/metrics/metrics.js';
import type { ProvidedReplacement } from './replacement.js';

export interface ChosenEvents {
  readonly imports: DynamicModule[];
  readonly events: ProviderDefinition<UploadEvents> | undefined;
}

/** Chooses the receiver of events: the replacement if there is one, else the webhook of EVENTS_WEBHOOK_URL, if set. */
export function eventsFor({ webhook }: Environment, replacement?: ProvidedReplacement): ChosenEvents {
  if (replacement) {
    return {
      imports: [replacement.module],
      events: {
        inject: [replacement.token, Metrics],
        useFactory: (events: UploadEvents, metrics: Metrics) => new MeasuredUploadEvents(events, metrics, 'provider'),
      },
    };
  }
  if (!webhook) return { imports: [], events: undefined };
  return {
    imports: [],
    events: {
      inject: [Metrics],
      useFactory: async (metrics: Metrics) => {
        const { WebhookUploadEvents } = await import('../ingestion/adapters/out/webhook/webhook.upload-events.adapter.js');
        return new MeasuredUploadEvents(new WebhookUploadEvents(webhook), metrics);
      },
    },
  };
}
