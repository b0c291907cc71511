import { ProviderError } from '../../../domain/errors.js';
import { ApiConnections } from '../provider-api/api-connections.js';
import { Invitations } from '../provider-api/invitations.js';
import { MAIL_TIMEOUT_MS } from '../provider-api/time-budget.js';

export interface TenantInvitationsOptions {
  /** The tenant's URL, without a trailing slash. */
  readonly url: string;
  /** The client id of the application on whose behalf Auth0 sends the mail to a new user. */
  readonly clientId: string;
  /** The name of the Auth0 connection (a database of users) that the new users belong to. */
  readonly connection: string;
}

/** Invites new users by having Auth0 send them the same mail as to users who forgot their password. */
export class TenantInvitations extends Invitations {
  private readonly connections = new ApiConnections('Auth0');

  constructor(private readonly options: TenantInvitationsOptions) {
    super();
  }

  /**
   * Closes the connections to Auth0 before it waits for the queued mails. So these mails fail at once, and none is
   * sent, except perhaps one whose request Auth0 has already received.
   */
  override async close(): Promise<void> {
    await this.connections.close();
    await super.close();
  }

  /**
   * Requests one mail from Auth0's public endpoint for forgotten passwords. The endpoint needs no token, and its answer
   * doesn't reveal whether the user exists.
   */
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
