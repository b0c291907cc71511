export declare function programPath(name: string): string | undefined;
export declare const MISSING_PROXIES: readonly string[];
