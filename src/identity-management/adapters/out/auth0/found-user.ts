import { z } from 'zod';
import type { User } from '../../../domain/user.js';

const TIME = z.string().transform((text) => Date.parse(text)).pipe(z.number());

/** A user in an answer or export of Auth0. Times are converted to milliseconds since 1970. */
export const FOUND_USER = z.object({
  user_id: z.string(),
  email: z.string().nullish(),
  name: z.string().nullish(),
  created_at: TIME,
  updated_at: TIME,
});

export type FoundUser = z.infer<typeof FOUND_USER>;

export const USER_FIELDS = Object.keys(FOUND_USER.shape);

export const toUser = ({ user_id, email, name }: FoundUser): User => ({ userId: user_id, name: (name ?? '') || (email ?? ''), email: email ?? '' });
