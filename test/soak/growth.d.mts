export type Points = [seconds: number, value: number][];

export function medians(points: Points): Points;
export function growthOf(curve: { name: string; unit: string; points: Points; all?: Points }, seconds: number, mostGrowth: number): Record<'title' | 'second quarter' | 'last quarter' | 'ratio' | '', string>;
