"use strict";
(async () => {
  const { components, figures } = JSON.parse(document.getElementById("figures").textContent);
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const program = document.createElement("script");
  program.textContent = await new Response(stream).text();
  document.head.appendChild(program);

  const narrow = () => window.innerWidth < 640;
  const config = {
    responsive: true, displaylogo: false, displayModeBar: !narrow(),
    modeBarButtonsToRemove: ["select2d", "lasso2d"],
  };

  // One standard deviation around a point, for two components, by the Cholesky factor of their covariance.
  function ellipse(mean, cov, h, v) {
    const a = Math.sqrt(cov[h][h]), b = cov[h][v] / a, c = Math.sqrt(Math.max(cov[v][v] - b * b, 0));
    const x = [], y = [];
    for (let i = 0; i <= 48; i++) {
      const t = (2 * Math.PI * i) / 48;
      x.push(mean[h][0] + a * Math.cos(t));
      y.push(mean[v][0] + b * Math.cos(t) + c * Math.sin(t));
    }
    return { x, y };
  }

  function traces(option, h, v) {
    return option.data.map((trace, i) => {
      const columns = option.columns[i];
      if (!columns) return trace;
      const cov = option.covs && option.covs[i];
      return { ...trace, ...(cov ? ellipse(columns, cov, h, v) : { x: columns[h], y: columns[v] }) };
    });
  }

  function look(option, h, v) {
    const layout = structuredClone(option.layout);
    if (option.columns.length) {
      layout.xaxis.title = { text: "component " + (h + 1) };
      layout.yaxis.title = { text: "component " + (v + 1) };
    }
    if (narrow()) {
      layout.font.size = 11;
      layout.margin = { l: 44, r: 8, t: 28, b: 52 };
      if (option.columns.length) layout.height = Math.min(layout.height, window.innerWidth + 60);
    }
    return layout;
  }

  function menu(place, label, names, chosen, act) {
    const frame = document.createElement("label"), select = document.createElement("select");
    frame.append(label + " ", select);
    names.forEach((name, i) => select.add(new Option(name, i, i === chosen, i === chosen)));
    select.addEventListener("change", () => act(Number(select.value)));
    place.append(frame);
  }

  function show(figure) {
    const frame = document.getElementById("figure-" + figure.key);
    const plot = frame.querySelector(".plot"), menus = frame.querySelector(".menus");
    const state = { option: 0, h: 0, v: 1 };
    const words = frame.querySelector("figcaption").textContent;
    const draw = async () => {
      const option = figure.options[state.option];
      await Plotly.react(plot, traces(option, state.h, state.v), look(option, state.h, state.v), config);
      plot.querySelectorAll(".main-svg").forEach((part, i) => {  // one picture with words, its upper layers silent
        part.setAttribute(i ? "aria-hidden" : "role", i ? "true" : "img");
        if (!i) part.setAttribute("aria-label", words);
      });
    };
    const set = (name) => (value) => { state[name] = value; draw(); };
    if (figure.menu && figure.options.length > 1) {
      menu(menus, figure.menu, figure.options.map((option) => option.label), 0, set("option"));
    }
    if (figure.options[0].columns.length && components > 2) {
      const names = Array.from({ length: components }, (_, k) => "component " + (k + 1));
      menu(menus, "Across", names, 0, set("h"));
      menu(menus, "Up", names, 1, set("v"));
    }
    return draw();
  }

  for (const figure of figures) {
    await show(figure);
    await new Promise((resolve) => setTimeout(resolve));  // lets the page answer between two figures
  }
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
    document.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
  });
  performance.mark("drawn");
  document.documentElement.dataset.drawn = figures.length;
})();
