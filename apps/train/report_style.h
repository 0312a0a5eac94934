#pragma once

namespace tally::app {

// The style of the report, light or dark as the system of the reader, and the script that shows the
// values under the pointer. The colours of curves and segments are those of Okabe and Ito (2008),
// which are suitable for colour-blind readers; lighter ones on a dark background.
inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--line:#e3e6eb;--text:#1b2430;
--soft:#5c6878;--faint:#eceff3;
--blue:#0072b2;--orange:#d9830b;--green:#008a64;--red:#cc4b16;--inside:#fff}
@media(prefers-color-scheme:dark){:root{--page:#12161c;--card:#1b212a;--line:#2d3541;--text:#e7ebf1;
--soft:#9aa6b6;
--faint:#262d38;--blue:#5ab4ea;--orange:#f0b13c;--green:#35c79b;--red:#f08050;--inside:#10151b}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1200px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}
header p{margin:4px 0 0;color:var(--soft)}
.badge{display:inline-block;margin-left:6px;padding:1px 10px;border-radius:99px;
background:var(--faint);color:var(--text);font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));
gap:14px;margin:22px 0 16px}
.card,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:12px 16px}
.tile b{display:block;font-size:24px;line-height:1.3;font-weight:600;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile span,.tile small{color:var(--soft);font-size:13px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
gap:16px;align-items:start}
.card{margin:0;padding:16px 18px;position:relative;min-width:0}
.wide{grid-column:1/-1}
figcaption,h2{font-size:16px;font-weight:600;margin:0 0 4px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;color:var(--soft);font-size:13px;margin-bottom:8px}
.legend b{color:var(--text);font-weight:600}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;
vertical-align:-1px;background:currentColor}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--line)}
.axis,.tickmark{stroke:var(--soft)}
.epochline{stroke:var(--line);stroke-dasharray:2 4}
svg .inside{fill:var(--inside);font-weight:600}
.curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.dot{fill:currentColor;stroke:var(--card);stroke-width:1.5}
.bad{fill:var(--red)}
.train,.speed{color:var(--blue)}.test{color:var(--orange)}.accuracy{color:var(--green)}
.compute{fill:var(--blue);color:var(--blue)}.communicate{fill:var(--orange);color:var(--orange)}
.wait{fill:var(--red);color:var(--red)}.data{fill:var(--green);color:var(--green)}
.cursor{stroke:var(--soft);visibility:hidden}
.tip{position:absolute;pointer-events:none;background:var(--card);border:1px solid var(--line);
border-radius:8px;padding:6px 10px;
font-size:13px;box-shadow:0 4px 16px #0003;white-space:nowrap;z-index:1}
.tip div{display:flex;gap:16px;justify-content:space-between}
.tip b{font-variant-numeric:tabular-nums}
.empty,.aside{color:var(--soft)}.aside{font-size:13px;margin:6px 0 0}
.empty{padding:40px 0;text-align:center;margin:0}
.warning{color:var(--red);margin:8px 0 0;font-size:14px}
table{width:100%;border-collapse:collapse;font-size:14px}
td,th{padding:5px 0;border-top:1px solid var(--line);text-align:left;
vertical-align:top;overflow-wrap:anywhere}
tr:first-child>*{border-top:0}
th{font-weight:400;color:var(--soft);padding-right:18px;width:38%}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;
font:14px/1.55 ui-monospace,"DejaVu Sans Mono",monospace}
footer{color:var(--soft);font-size:13px;margin-top:20px}
@media print{body{background:#fff}.card,.tile{break-inside:avoid}}
)css";

inline constexpr const char* kReportScript = R"js(
for (const svg of document.querySelectorAll("svg[data-curves]")) {
  const curves = JSON.parse(svg.dataset.curves), tip = svg.parentNode.querySelector(".tip");
  const cursor = svg.querySelector(".cursor");
  const row = (style, name, value) => {
    const line = document.createElement("div");
    const left = document.createElement("span"), right = document.createElement("b");
    left.textContent = name; left.className = style; right.textContent = value;
    line.append(left, right); return line;
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const x = (event.clientX - box.left) / scale;
    const near = points => points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
    const found = curves.filter(c => c.points.length).map(c => [c, near(c.points)]);
    const best = near(found.map(f => f[1]));
    const rows = found.filter(f => Math.abs(f[1][0] - best[0]) < 6)
      .map(f => row(f[0].style, f[0].name, f[1][4]));
    tip.replaceChildren(row("", "step " + best[2], "epoch " + best[3]), ...rows);
    tip.hidden = false;
    const frame = svg.parentNode.getBoundingClientRect();
    const left = box.left - frame.left + best[0] * scale;
    const fits = left + 14 + tip.offsetWidth <= frame.width;
    tip.style.left = Math.max(4, fits ? left + 14 : left - tip.offsetWidth - 14) + "px";
    tip.style.top = box.top - frame.top + 34 * scale + "px";
    cursor.setAttribute("x1", best[0]); cursor.setAttribute("x2", best[0]);
    cursor.style.visibility = "visible";
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true; cursor.style.visibility = "hidden";
  });
}
)js";

}  // namespace tally::app
