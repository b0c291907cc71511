import { ProviderError } from '../../../domain/errors.js';
import { ApiConnections } from '../provider-api/api-connections.js';
import { Invitations } from '../provider-api/invitations.js';

export interface InvitationMailOptions {
  /** Where the tenant is, without a trailing slash. */
  readonly url: string;
  /** The application in whose name Auth0 sends the mail. */
  readonly clientId: string;
  /** The database connection that the user is in. */
  readonly connection: string;
}

const TIMEOUT_MS = 20_000;

/** Mails to new users, which Auth0 sends, with a link to set their password. */
export class InvitationMail {
  private readonly connections = new ApiConnections('Auth0');
  private readonly invitations = new Invitations();

  constructor(private readonly options: InvitationMailOptions) {}

  send(userId: string, email: string): void {
    this.invitations.send(userId, () => this.ask(email));
  }

  /** Those that still wait are not sent. */
  async close(): Promise<void> {
    await this.connections.close();
    await this.invitations.close();
  }

  /** By the operation that people use who have lost theirs; no token is needed, and the answer doesn't say who is there. */
  private async ask(email: string): Promise<boolean> {
    const { url, clientId, connection } = this.options;
    const label = 'POST /dbconnections/change_password';
    const { status } = await this.connections.send({
      label,
      url: `${url}/dbconnections/change_password`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_id: clientId, email, connection }),
      repeatable: false,
      timeoutMs: TIMEOUT_MS,
      signal: new AbortController().signal,
    });
    if (status !== 200) throw new ProviderError(`Auth0 answers ${label} with ${status}.`);
    return true;
  }
}
