/** A figure of one entrant of a contest, compared with one of another (or of the same), and the goal for the two medians. */
export function row(name, work, contest, of, to, goal) {
  return { name, work, contest, of, to, goal };
}

export function atLeast(ratio) {
  return { title: `>= ${ratio.toFixed(2)}`, isMet: (value, reference) => value / reference >= ratio };
}

export function atMost(ratio) {
  return { title: `<= ${ratio.toFixed(2)}`, isMet: (value, reference) => value / reference <= ratio };
}

export function below(most, unit) {
  return { title: `< ${most} ${unit}`, isMet: (value) => value < most };
}

/** At most this share, or this many milliseconds, above the other figure. */
export function noLater(share, milliseconds) {
  return {
    title: `<= ${(1 + share).toFixed(2)} or + ${milliseconds} ms`,
    isMet: (value, reference) => value <= Math.max(reference * (1 + share), reference + milliseconds),
  };
}

/** At least this much by itself, or the other goal in comparison with the other figure. */
export function either(goal, least, unit) {
  return {
    title: `${goal.title} or >= ${least}${unit}`,
    isMet: (value, reference) => value >= least || goal.isMet(value, reference),
  };
}
