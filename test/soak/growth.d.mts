export type Points = [seconds: number, value: number][];
export type Curve = { name: string; unit: string; points: Points; all?: Points; control?: Points; isControl?: boolean };
export type Row = Record<'title' | 'second quarter' | 'last quarter' | 'ratio', string> & { 'beside the control'?: string; ''?: string };

export function medians(points: Points): Points;
export function growthOf(curve: Curve, seconds: number, mostGrowth: number): Row;
