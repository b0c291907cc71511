import { Logger } from '@nestjs/common';
import { z } from 'zod';
import { type ApiClient, unexpected } from '../provider-api/api-client.js';
import { Invitations } from '../provider-api/invitations.js';
import { Operation } from '../provider-api/operation.js';
import { MAIL_TIMEOUT_MS } from '../provider-api/time-budget.js';
import { UPDATE_PASSWORD } from './realm.js';

export interface RealmInvitationsOptions {
  /** After a user has set the password, Keycloak shows a link to this client's `baseUrl`. Undefined: no link. */
  readonly clientId?: string | undefined;
}

const REALM = z.object({ smtpServer: z.record(z.string(), z.unknown()).nullish() });

/**
 * The reason why the realm can't send mails; empty if it has a mail server.
 *
 * @throws ProviderUnavailable, ProviderError
 */
export async function mailProblems(api: ApiClient, operation: Operation): Promise<readonly string[]> {
  const { smtpServer } = await api.get('', REALM, operation);
  return smtpServer?.host ? [] : ['New users get no invitation (KEYCLOAK_INVITATION_MAIL): the realm has no mail server.'];
}

/** Invites new users with mails from Keycloak. Sends none, and logs that once, while the realm has no mail server. */
export class RealmInvitations extends Invitations {
  private readonly logger = new Logger('InvitationMail');
  private loggedProblem: string | undefined;

  constructor(
    private readonly api: ApiClient,
    private readonly options: RealmInvitationsOptions,
  ) {
    super();
  }

  protected override async mail(userId: string): Promise<boolean> {
    const operation = new Operation(AbortSignal.timeout(MAIL_TIMEOUT_MS));
    const [problem] = await mailProblems(this.api, operation);
    if (problem !== undefined && this.loggedProblem === undefined) this.logger.warn(problem);
    this.loggedProblem = problem;
    if (problem !== undefined) return false;
    const { clientId } = this.options;
    const query = clientId === undefined ? '' : `?client_id=${encodeURIComponent(clientId)}`;
    const path = `/users/${userId}/execute-actions-email${query}`;
    const answer = await this.api.call({ method: 'PUT', path, body: [UPDATE_PASSWORD], operation });
    if (answer.status !== 204) throw unexpected(answer);
    return true;
  }
}
