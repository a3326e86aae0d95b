import { expect, test } from "vitest";
import { ofFragment } from "./token";

test("a token is read as it was written", () => {
  expect(ofFragment("#token=aZ9-_.%7E%2B%2F%3D")).toBe("aZ9-_.~+/=");
  expect(["", "#", "#token=", "#other=1"].map(ofFragment)).toEqual([null, null, null, null]);
});
