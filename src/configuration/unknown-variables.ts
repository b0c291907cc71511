/** The prefixes of variables that only this service reads. An unknown name with such a prefix is probably a mistake. */
const OWN_FAMILIES = /^(?:AUTH0|EMBEDDED|EVENTS_WEBHOOK|INGESTION|KEYCLOAK|OIDC|RATE_LIMIT|REQUEST|S3|SHUTDOWN|SWAGGER_UI)_/;
/**
 * The endings of variables that Kubernetes and Docker set for each neighbouring service, such as one called `keycloak`.
 */
const OF_NEIGHBOURS = /_(?:SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)$/;
/**
 * An unknown name counts as a misspelling of a known name if at most this many characters must be inserted, removed or
 * replaced.
 */
const MAX_EDITS = 2;
/**
 * The length of the shortest unknown name that can count as a misspelling of a known name. Shorter names, such as
 * `HOST` and `HOME`, resemble each other by chance.
 */
const MIN_LENGTH = 6;

/** Readers of environment variables other than the service: a team's code. */
export interface OtherReaders {
  /** The names of the variables that a team's adapters have declared. */
  readonly declared: readonly string[];
  /** Whether a team's code possibly reads variables that it hasn't declared. Then any variable may have an effect. */
  readonly readUndeclared: boolean;
}

export const NO_OTHER_READERS: OtherReaders = { declared: [], readUndeclared: false };

/**
 * Describes the environment variables whose names aren't known but are probably meant for this service, or for an
 * adapter of a team, one line each. Such a name is a misspelling of a known name, has a prefix that only this service
 * uses, or has the prefix of a declared name and resembles a known name. Names with an ending of OF_NEIGHBOURS are left
 * out. The lines don't contain values. If a team's code may read any variable, only names that resemble a known one are
 * described, and the lines don't say that the variable has no effect.
 */
export function unknownVariables(names: readonly string[], ownNames: readonly string[], { declared, readUndeclared }: OtherReaders = NO_OTHER_READERS): string[] {
  const known = [...ownNames, ...declared];
  const prefixes = declared.map((name) => name.slice(0, name.lastIndexOf('_') + 1)).filter((prefix) => prefix !== '');
  return names
    .filter((name) => !known.includes(name) && !OF_NEIGHBOURS.test(name))
    .flatMap((name) => {
      const isOwn = OWN_FAMILIES.test(name);
      const shared = prefixes.filter((prefix) => name.startsWith(prefix));
      const nearest = nearestOf(name, known, isOwn || shared.length > 0 ? Infinity : MAX_EDITS + 1);
      const isSlip = nearest.edits <= MAX_EDITS && name.length >= MIN_LENGTH;
      // Other programs may read variables with the prefix of a declared name. So the prefix alone isn't enough: the
      // rest of the name must be similar to that of a known name, too.
      const isLikeDeclared = shared.some((prefix) => nearest.edits <= (name.length - prefix.length) / 2);
      if (!isSlip && !isLikeDeclared && !isOwn) return [];
      const advice = nearest.edits <= name.length / 2 ? `: did you mean ${nearest.name}?` : '';
      if (readUndeclared) return advice ? [`${name}: not a variable of the service${advice}`] : [];
      return [`${name}: unknown variable, without effect${advice}`];
    });
}

/**
 * The known name that resembles `name` most, and the number of edits between them. An empty name if all of them need
 * `limit` edits or more.
 */
function nearestOf(name: string, known: readonly string[], limit: number): { name: string; edits: number } {
  let best = { name: '', edits: limit };
  for (const candidate of known) {
    // There are at least as many edits as the lengths differ.
    if (Math.abs(candidate.length - name.length) >= best.edits) continue;
    const edits = editsBetween(name, candidate);
    if (edits < best.edits) best = { name: candidate, edits };
  }
  return best;
}

/**
 * The Levenshtein distance of two texts: how many characters must be inserted, removed or replaced to get from one to
 * the other.
 */
function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, character] of Array.from(one).entries()) {
    const next = [index + 1];
    for (const [at, opposite] of Array.from(other).entries()) {
      const replaced = (row[at] ?? 0) + (character === opposite ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
