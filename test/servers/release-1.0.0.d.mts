export const RELEASE: string;
export function isReleaseAvailable(): boolean;
export function packRelease(): Promise<void>;
