/**
 * A row of a bench: a figure of one entrant of a contest (`of`), compared with a figure of another entrant or of the
 * same one (`to`), and the goal for the medians of both.
 */
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

/**
 * The goal that a figure is at most this share, or this many milliseconds, above the other figure, whichever allows
 * more.
 */
export function noLater(share, milliseconds) {
  return {
    title: `<= ${(1 + share).toFixed(2)} or + ${milliseconds} ms`,
    isMet: (value, reference) => value <= Math.max(reference * (1 + share), reference + milliseconds),
  };
}

/** The goal that a figure is at least `least`, or reaches the goal `goal` in comparison with the other figure. */
export function either(goal, least, unit) {
  return {
    title: `${goal.title} or >= ${least}${unit}`,
    isMet: (value, reference) => value >= least || goal.isMet(value, reference),
  };
}
