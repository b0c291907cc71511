/** A user of a simulated Auth0 tenant. A change makes a new record: the search index may still hold the old one. */
export interface UserRecord {
  /** The user's id, in the form `<provider>|<id>`. */
  readonly userId: string;
  readonly email: string;
  readonly name: string;
  readonly connection: string;
  /** When the user was created, in milliseconds since 1970. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly emailVerified: boolean;
  readonly others?: Readonly<Record<string, unknown>>;
}

/** Returns a user as Auth0's Management API does. */
export function userView(user: UserRecord): Record<string, unknown> {
  const [provider = '', ...id] = user.userId.split('|');
  return {
    created_at: new Date(user.createdAt).toISOString(),
    email: user.email,
    email_verified: user.emailVerified,
    identities: [{ user_id: id.join('|'), provider, connection: user.connection, isSocial: provider !== 'auth0' }],
    name: user.name,
    nickname: user.email.split('@')[0],
    picture: 'https://s.gravatar.com/avatar/0?s=480&r=pg',
    updated_at: new Date(user.updatedAt).toISOString(),
    user_id: user.userId,
    ...user.others,
  };
}
