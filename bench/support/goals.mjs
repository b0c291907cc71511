/** A figure of one entrant of a contest, held against one of another (or of the same), and the goal for the two medians. */
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

/** No more than a share, or so many milliseconds, above the other. */
export function noLater(share, milliseconds) {
  return {
    title: `<= ${(1 + share).toFixed(2)} or + ${milliseconds} ms`,
    isMet: (value, reference) => value <= Math.max(reference * (1 + share), reference + milliseconds),
  };
}

/** So much of it by itself, or the other goal, which is held against the other. */
export function either(goal, least, unit) {
  return {
    title: `${goal.title} or >= ${least}${unit}`,
    isMet: (value, reference) => value >= least || goal.isMet(value, reference),
  };
}
