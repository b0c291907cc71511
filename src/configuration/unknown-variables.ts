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
const MOST_EDITS = 2;
/**
 * The length of the shortest unknown name that can count as a misspelling of a known name. Shorter names, such as
 * `HOST` and `HOME`, resemble each other by chance.
 */
const LEAST_LENGTH = 6;

/**
 * Describes the environment variables whose names aren't known but are probably meant for this service, one line each.
 * Such a name is a misspelling of a known name, or has a prefix that only this service uses. The lines don't contain
 * values.
 */
export function unknownVariables(names: readonly string[], known: readonly string[]): string[] {
  return names
    .filter((name) => !known.includes(name) && !OF_NEIGHBOURS.test(name))
    .flatMap((name) => {
      const nearest = nearestOf(name, known);
      const isSlip = nearest.edits <= MOST_EDITS && name.length >= LEAST_LENGTH;
      if (!isSlip && !OWN_FAMILIES.test(name)) return [];
      const advice = nearest.edits <= name.length / 2 ? `: did you mean ${nearest.name}?` : '';
      return [`${name}: unknown variable, without effect${advice}`];
    });
}

function nearestOf(name: string, known: readonly string[]): { name: string; edits: number } {
  const candidates = known.map((candidate) => ({ name: candidate, edits: editsBetween(name, candidate) }));
  return candidates.reduce((best, candidate) => (candidate.edits < best.edits ? candidate : best));
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
