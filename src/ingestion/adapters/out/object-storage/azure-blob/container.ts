import type { TokenCredential } from '@azure/identity';
import { ContainerClient } from '@azure/storage-blob';

/** A `ContainerClient` whose requests can be observed, which the SDK has no option for. */
export class Container extends ContainerClient {
  /**
   * Makes this client, and the clients of its blobs, report each request.
   *
   * @param onRetry called before a request is repeated.
   * @param onAnswer called for each answer that contains the store's time, with this time in milliseconds since 1970.
   */
  observe(onRetry: () => void, onAnswer: (answeredAt: number) => void): void {
    const sent = new WeakSet();
    const observe: PipelinePolicy = {
      name: 'observe',
      async sendRequest(request, next) {
        if (sent.has(request)) onRetry();
        sent.add(request);
        const answer = await next(request);
        const answeredAt = Date.parse(answer.headers.get('date') ?? '');
        if (!Number.isNaN(answeredAt)) onAnswer(answeredAt);
        return answer;
      },
    };
    this.storageClientContext.pipeline.addPolicy(observe, { afterPhase: 'Retry' });
  }
}

/** A step through which each request passes on its way to the store, and its answer on the way back. */
type PipelinePolicy = Parameters<ContainerPipeline['addPolicy']>[0];
type ContainerPipeline = Container['storageClientContext']['pipeline'];

/** `DefaultAzureCredential`, whose module is loaded on first use because it is large. */
export class DefaultCredential implements TokenCredential {
  private credential: Promise<TokenCredential> | undefined;

  async getToken(...asked: Parameters<TokenCredential['getToken']>): ReturnType<TokenCredential['getToken']> {
    this.credential ??= import('@azure/identity').then(({ DefaultAzureCredential }) => new DefaultAzureCredential());
    return (await this.credential).getToken(...asked);
  }
}
