import { z } from 'zod';

const ATTRIBUTE = z.looseObject({
  name: z.string(),
  validations: z.record(z.string(), z.unknown()).nullish(),
  required: z.looseObject({ roles: z.array(z.string()).nullish(), scopes: z.array(z.string()).nullish() }).nullish(),
  permissions: z.looseObject({ view: z.array(z.string()).nullish(), edit: z.array(z.string()).nullish() }).nullish(),
});
type Attribute = z.infer<typeof ATTRIBUTE>;

/** What a realm's users have, as Keycloak describes it; what we don't know of it stays as it is. */
export const USER_PROFILE = z.looseObject({ attributes: z.array(ATTRIBUTE) });
export type UserProfile = z.infer<typeof USER_PROFILE>;

/** Something in a user profile that doesn't fit the service. */
export interface ProfileDefect {
  /** `~ user profile: lastName not required`. */
  readonly change: string;
  /** What is wrong, in a sentence. */
  readonly problem: string;
  /** Whether users can't be created with it. */
  readonly isFatal: boolean;
  /** The profile without it. */
  readonly repair: (profile: UserProfile) => UserProfile;
}

const BOTH = { view: ['admin', 'user'], edit: ['admin', 'user'] };
const ADMINISTRATORS = { view: ['admin'], edit: ['admin'] };
/** Keycloak has no more room. */
const MOST_UNITS = 255;
const LENGTH = { length: { max: MOST_UNITS } };

/** Of a realm that the setup makes. */
export const NEW_USER_PROFILE: UserProfile = {
  attributes: [
    { name: 'username', displayName: '${username}', permissions: BOTH, validations: LENGTH },
    { name: 'email', displayName: '${email}', permissions: BOTH, required: { roles: ['user'] }, validations: { email: {}, ...LENGTH } },
    { name: 'firstName', displayName: '${firstName}', permissions: BOTH, validations: LENGTH },
    { name: 'lastName', displayName: '${lastName}', permissions: BOTH, validations: LENGTH },
    { name: 'customer_id', displayName: 'customer_id', permissions: ADMINISTRATORS, multivalued: true },
  ],
};

/** What takes any value that the service sends, with the most that the least length may be: the username is the e-mail. */
const FREE: Readonly<Record<string, number>> = { username: 3, firstName: 1, lastName: 1 };

const LENGTH_OPTIONS = z.looseObject({ min: z.coerce.number().default(0), max: z.coerce.number().default(MOST_UNITS) });

/**
 * What doesn't fit the service in a user profile: names are of any characters and the service may set them, no last name is
 * demanded, and `customer_id` is there and the administrators'.
 */
export function profileDefects({ attributes }: UserProfile): ProfileDefect[] {
  const absent = NEW_USER_PROFILE.attributes.filter(({ name }) => !attributes.some((attribute) => attribute.name === name));
  return [...absent.map(absence), ...attributes.flatMap((attribute) => [...refusal(attribute), ...demand(attribute), ...rejection(attribute), ...exposure(attribute)])];
}

const absence = (attribute: Attribute): ProfileDefect => ({
  change: `+ user profile: ${attribute.name}`,
  problem: `The user profile has no attribute ${attribute.name}.`,
  // Without it every name that is asked for is dropped.
  isFatal: attribute.name === 'firstName',
  repair: (profile) => ({ ...profile, attributes: [...profile.attributes, attribute] }),
});

/** Keycloak drops what the service, an administrator, may not edit. */
function rejection({ name, permissions }: Attribute): ProfileDefect[] {
  if (![...GIVEN, 'lastName'].includes(name) || !permissions?.edit || permissions.edit.includes('admin')) return [];
  return [
    {
      change: `~ user profile: ${name} editable by administrators`,
      problem: `The user profile does not let administrators edit ${name}.`,
      isFatal: name !== 'lastName',
      repair: replacing(name, (attribute) => ({
        ...attribute,
        permissions: { ...attribute.permissions, edit: [...(attribute.permissions?.edit ?? []), 'admin'] },
      })),
    },
  ];
}

function refusal({ name, validations }: Attribute): ProfileDefect[] {
  const leastLength = FREE[name];
  if (leastLength === undefined) return [];
  const refusing = Object.entries(validations ?? {}).filter(([validator, options]) => !isHarmless(validator, options, leastLength));
  if (refusing.length === 0) return [];
  const validators = refusing.map(([validator]) => validator).join(', ');
  return [
    {
      change: `~ user profile: ${name} without ${validators}`,
      problem: `The user profile refuses values of ${name} (${validators}).`,
      isFatal: false,
      repair: replacing(name, (attribute) => {
        const harmless = Object.entries(attribute.validations ?? {}).filter(([validator, options]) => isHarmless(validator, options, leastLength));
        return { ...attribute, validations: { ...LENGTH, ...Object.fromEntries(harmless) } };
      }),
    },
  ];
}

function isHarmless(validator: string, options: unknown, leastLength: number): boolean {
  const { data: length } = LENGTH_OPTIONS.safeParse(options ?? {});
  return validator === 'length' && length !== undefined && length.min <= leastLength && length.max >= MOST_UNITS;
}

/** What the service gives each user that it creates. */
const GIVEN = ['username', 'email', 'firstName'];

function demand({ name, required }: Attribute): ProfileDefect[] {
  if (!required || GIVEN.includes(name)) return [];
  const { roles, scopes } = required;
  // The service creates users as an administrator does.
  const isFatal = (!roles?.length && !scopes?.length) || roles?.includes('admin') === true;
  // What people are asked for themselves is no matter, but for a name that they may not have.
  if (!isFatal && name !== 'lastName') return [];
  return [
    {
      change: `~ user profile: ${name} not required`,
      problem: `The user profile requires ${name === 'lastName' ? 'a last name' : name}.`,
      isFatal,
      repair: replacing(name, ({ required: _, ...attribute }) => attribute),
    },
  ];
}

function exposure({ name, permissions }: Attribute): ProfileDefect[] {
  if (name !== 'customer_id' || permissions?.edit?.includes('user') !== true) return [];
  return [
    {
      change: '~ user profile: customer_id not editable by users',
      problem: 'The user profile lets users edit their customer_id.',
      isFatal: false,
      repair: replacing(name, (attribute) => ({ ...attribute, permissions: { ...attribute.permissions, edit: ['admin'] } })),
    },
  ];
}

const replacing =
  (name: string, change: (attribute: Attribute) => Attribute) =>
  (profile: UserProfile): UserProfile => ({
    ...profile,
    attributes: profile.attributes.map((attribute) => (attribute.name === name ? change(attribute) : attribute)),
  });
