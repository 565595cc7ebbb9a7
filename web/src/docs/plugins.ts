/** Plugins of Swagger UI that keep a key where it was typed. */

import type { Component, Plugin } from "swagger-ui-dist/swagger-ui-es-bundle.js";

const SECRET = ["Authorization", "X-API-Key"];

/** The curl command of a request has YOUR_KEY in place of the key. */
export const withoutKey: Plugin = () => ({
  wrapComponents: {
    curl: (Original: Component, { React }) =>
      function Curl({ request, ...rest }) {
        const headers = request.get("headers");
        const hidden = SECRET.filter((name) => headers?.has(name)).reduce(
          (all, name) => all.set(name, name === "Authorization" ? "Bearer YOUR_KEY" : "YOUR_KEY"),
          headers,
        );
        return React.createElement(Original, { ...rest, request: request.set("headers", hidden) });
      },
  },
});

/** The browser keeps no history of what was typed into a field. */
export const withoutHistory: Plugin = () => ({
  wrapComponents: {
    Input: (Original: Component, { React }) =>
      function Input(props) {
        return React.createElement(Original, { ...props, autoComplete: "off", spellCheck: false });
      },
  },
});
