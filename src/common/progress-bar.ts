const WIDTH = 20;

/** Shows a share between 0 and 1 as a bar of 20 characters and a percentage. */
export const progressBar = (share: number): string =>
  `[${'#'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '.')}] ${String(Math.floor(share * 100)).padStart(3)} %`;
