/** The data of a user. A record is never changed in place, because the search may still have an older version. */
export interface UserRecord {
  /** The id in the form `<provider>|<id>`. */
  readonly userId: string;
  readonly email: string;
  readonly name: string;
  readonly connection: string;
  /** The time of creation, in milliseconds since 1970. */
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly emailVerified: boolean;
  /** Other members that were set: `given_name`, `app_metadata`, `blocked` and so on. */
  readonly others?: Readonly<Record<string, unknown>>;
}

/** A user as the API returns it. A new user has a nickname and a picture by default. */
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
