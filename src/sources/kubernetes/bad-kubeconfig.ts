import { ApiError } from "./api-errors.ts";

/** @param why what is wrong, in a person's words and without any content of the file. */
export function badKubeconfig(path: string, why: string): ApiError {
	return new ApiError("credentials", `Cannot use kubeconfig ${path}: ${why}`);
}
