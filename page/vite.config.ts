import { defineConfig } from "vite";

// The build writes files with fixed names to the directory from which the program includes the page.
const into = process.env.PAGE_OUT ?? "../crates/falaj-serve/src/page";

export default defineConfig({
  base: "./",
  build: {
    outDir: into,
    emptyOutDir: true,
    target: "es2023",
    modulePreload: false,
    rollupOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", codeSplitting: false },
    },
  },
  // With `FALAJ=http://127.0.0.1:7700 npm run dev`, Vite serves the page, and passes requests of the API to that service.
  server: { proxy: { "/v1": process.env.FALAJ ?? "http://127.0.0.1:7700" } },
});
