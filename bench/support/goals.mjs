/**
 * A row of a bench: a figure of one entrant of a contest (`of`), and the figure with which it is compared, of another
 * or the same entrant (`to`; undefined if the goal is only a limit). The goal applies to the medians of the figures
 * over the rounds.
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
 * A goal: the figure exceeds the figure that it is compared with by at most this share of the latter, or by at most
 * this many milliseconds, whichever allows more.
 */
export function noLater(share, milliseconds) {
  return {
    title: `<= ${(1 + share).toFixed(2)} or + ${milliseconds} ms`,
    isMet: (value, reference) => value <= Math.max(reference * (1 + share), reference + milliseconds),
  };
}

/** A goal: the figure is at least `least`, or it reaches `goal` in comparison with the other figure. */
export function either(goal, least, unit) {
  return {
    title: `${goal.title} or >= ${least}${unit}`,
    isMet: (value, reference) => value >= least || goal.isMet(value, reference),
  };
}
