import { Logger } from '@nestjs/common';
import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-node';

/** Logs when exporting spans begins to fail, and when it succeeds again. */
export class ReportedExporter implements SpanExporter {
  private readonly logger = new Logger('Tracing');
  private isFailing = false;

  constructor(private readonly exporter: SpanExporter) {}

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.exporter.export(spans, (result) => {
      this.report(result);
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.exporter.forceFlush?.();
  }

  async shutdown(): Promise<void> {
    await this.exporter.shutdown();
  }

  private report({ code, error }: ExportResult): void {
    const hasFailed = code === ExportResultCode.FAILED;
    if (hasFailed && !this.isFailing) this.logger.warn('Traces could not be exported, and are lost until this succeeds again.', error);
    if (!hasFailed && this.isFailing) this.logger.log({ msg: 'Traces are exported again.' });
    this.isFailing = hasFailed;
  }
}
