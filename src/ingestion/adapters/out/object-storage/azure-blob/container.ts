import type { TokenCredential } from '@azure/identity';
import { ContainerClient } from '@azure/storage-blob';

/** A `ContainerClient` of the SDK with a method to observe its requests, which the SDK has no option for. */
export class Container extends ContainerClient {
  /**
   * Reports the requests of this client, and of the clients of its blobs.
   *
   * @param onRetry called before a request is repeated.
   * @param onAnswer called with the time in the `Date` header of an answer, in milliseconds since 1970.
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

type PipelinePolicy = Parameters<ContainerPipeline['addPolicy']>[0];
type ContainerPipeline = Container['storageClientContext']['pipeline'];

/** The SDK's `DefaultAzureCredential`, whose module is loaded on first use because it is large. */
export class DefaultCredential implements TokenCredential {
  private credential: Promise<TokenCredential> | undefined;

  async getToken(...asked: Parameters<TokenCredential['getToken']>): ReturnType<TokenCredential['getToken']> {
    this.credential ??= import('@azure/identity').then(({ DefaultAzureCredential }) => new DefaultAzureCredential());
    return (await this.credential).getToken(...asked);
  }
}
