import { ProviderError } from '../../../domain/errors.js';
import { ApiConnections } from '../provider-api/api-connections.js';
import { Invitations } from '../provider-api/invitations.js';
import { MAIL_TIMEOUT_MS } from '../provider-api/time-budget.js';

export interface TenantInvitationsOptions {
  readonly url: string;
  readonly clientId: string;
  readonly connection: string;
}

/** Invites new users by having Auth0 send them the same mail as to users who forgot their password. */
export class TenantInvitations extends Invitations {
  private readonly connections = new ApiConnections('Auth0');

  constructor(private readonly options: TenantInvitationsOptions) {
    super();
  }

  /** Closes the connections before it waits for the queued mails, so that these fail at once. */
  override async close(): Promise<void> {
    await this.connections.close();
    await super.close();
  }

  /** Uses Auth0's public endpoint for forgotten passwords, whose answer doesn't reveal whether the user exists. */
  protected override async mail(_userId: string, email: string): Promise<boolean> {
    const { url, clientId, connection } = this.options;
    const label = 'POST /dbconnections/change_password';
    const { status } = await this.connections.send({
      label,
      url: `${url}/dbconnections/change_password`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_id: clientId, email, connection }),
      repeatable: false,
      timeoutMs: MAIL_TIMEOUT_MS,
      signal: new AbortController().signal,
    });
    if (status !== 200) throw new ProviderError(`Auth0 answers ${label} with ${status}.`);
    return true;
  }
}
