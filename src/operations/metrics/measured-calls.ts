import type { OnApplicationShutdown } from '@nestjs/common';
import type { Observer } from '../../common/observer.js';
import { ServiceError } from '../../common/service-error.js';
import {
  IdentityProvider,
  type ProviderCallOptions,
} from '../../identity-management/application/ports/identity-provider.port.js';
import { IdentityRefusal } from '../../identity-management/domain/errors.js';
import type { NewRole, Role } from '../../identity-management/domain/role.js';
import type { NewUser, User } from '../../identity-management/domain/user.js';
import type { CallMetrics, Metrics } from './metrics.js';
import type { Ownership } from './ownership.js';

/** The operations whose failures are counted from 0 on. */
const PROVIDER_OPERATIONS = ['createRole', 'createUser', 'updateUser', 'assignRole', 'listRoles', 'listUsers', 'checkHealth'] satisfies (keyof IdentityProvider)[];
const BUCKET_OPERATIONS = ['create', 'replace', 'upload', 'read', 'open', 'list', 'listDirectories', 'remove', 'removeParts', 'checkRights'];

function measuredCalls(calls: CallMetrics, operations: readonly string[], outcomeOf: (error: unknown) => string): Observer {
  let isUsed = false;
  return async (operation, call) => {
    // A rate in Prometheus can't include the failure with which a series begins.
    if (!isUsed) for (const each of operations) calls.total.inc({ operation: each, outcome: 'failed' }, 0);
    isUsed = true;
    const stop = calls.seconds.startTimer({ operation });
    let outcome = 'ok';
    calls.inProgress += 1;
    try {
      return await call();
    } catch (error) {
      outcome = outcomeOf(error);
      throw error;
    } finally {
      stop();
      calls.inProgress -= 1;
      calls.total.inc({ operation, outcome });
    }
  };
}

/** Counts and measures the calls to an identity provider. For a list, each call of the iterator's `next` counts. */
export class MeasuredIdentityProvider extends IdentityProvider implements OnApplicationShutdown {
  private readonly measured: Observer;

  constructor(
    private readonly provider: IdentityProvider & Partial<OnApplicationShutdown>,
    metrics: Metrics,
    private readonly ownership: Ownership = 'owned',
  ) {
    super();
    this.measured = measuredCalls(metrics.providerCalls, PROVIDER_OPERATIONS, (error) => (error instanceof IdentityRefusal ? 'refused' : 'failed'));
  }

  override createRole(role: NewRole, options: ProviderCallOptions): Promise<string> {
    return this.measured('createRole', () => this.provider.createRole(role, options));
  }

  override createUser(user: NewUser, options: ProviderCallOptions): Promise<string> {
    return this.measured('createUser', () => this.provider.createUser(user, options));
  }

  override updateUser(userId: string, change: { readonly name: string }, options: ProviderCallOptions): Promise<void> {
    return this.measured('updateUser', () => this.provider.updateUser(userId, change, options));
  }

  override assignRole(userId: string, roleId: string, options: ProviderCallOptions): Promise<void> {
    return this.measured('assignRole', () => this.provider.assignRole(userId, roleId, options));
  }

  override listRoles(options: ProviderCallOptions): AsyncIterable<readonly Role[]> {
    return this.measuredPages('listRoles', this.provider.listRoles(options));
  }

  override listUsers(options: ProviderCallOptions): AsyncIterable<readonly User[]> {
    return this.measuredPages('listUsers', this.provider.listUsers(options));
  }

  override checkHealth(options: ProviderCallOptions): Promise<void> {
    return this.measured('checkHealth', () => this.provider.checkHealth(options));
  }

  override get warnings(): readonly string[] {
    return this.provider.warnings;
  }

  async onApplicationShutdown(signal?: string): Promise<void> {
    if (this.ownership === 'owned') await this.provider.onApplicationShutdown?.(signal);
  }

  private measuredPages<Item>(operation: string, pages: AsyncIterable<readonly Item[]>): AsyncIterable<readonly Item[]> {
    return {
      [Symbol.asyncIterator]: () => {
        const iterator = pages[Symbol.asyncIterator]();
        return {
          next: () => this.measured(operation, () => iterator.next()),
          return: async () => (await iterator.return?.()) ?? { done: true, value: undefined },
        };
      },
    };
  }
}

/**
 * Observers that count and measure the calls to a bucket. A call counts as `aborted` if the bytes of an upload end
 * early or are refused, because the bucket isn't the cause then.
 */
export const measuredBucket = (metrics: Metrics): { readonly observeCall: Observer; readonly onRetry: () => void } => ({
  observeCall: measuredCalls(metrics.bucketCalls, BUCKET_OPERATIONS, (error) => (error instanceof ServiceError && error.kind !== 'storage-failure' ? 'aborted' : 'failed')),
  onRetry: () => { metrics.bucketRetries.inc(); },
});
