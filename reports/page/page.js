(function () {
  'use strict';
  function $(s, r) { return (r || document).querySelector(s); }
  function $$(s, r) { return Array.prototype.slice.call((r || document).querySelectorAll(s)); }
  var root = document.documentElement, D = JSON.parse($('#data').textContent), T = D.tensors, say = $('#say');
  function el(tag, cls, text) {
    var e = document.createElement(tag);
    if (cls) { e.className = cls; }
    if (text != null) { e.append(text); }
    return e;
  }
  function num(n) { return n.toLocaleString('en-US'); }

  // Names are hostile: text nodes alone, hidden characters spelled out, the middle of long ones cut.
  var HIDDEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/u;
  function name(s) {
    var b = el('bdi', 'k'), run = '', chars = Array.from(s);
    if (chars.length > 256) {
      s = chars.slice(0, 170).join('') + ' ... ' + num(chars.length - 256) + ' characters ... ' + chars.slice(-86).join('');
    }
    function flush() { if (run) { b.append(run); run = ''; } }
    for (var c of s) {
      if (HIDDEN.test(c)) {
        flush();
        b.append(el('span', 'u', 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')));
      } else {
        run += c;
        if (c === '.' || c === '/') { flush(); b.append(el('wbr')); }
      }
    }
    flush();
    return b;
  }
  // Any other text: hidden characters spelled out, too.
  var ALL_HIDDEN = new RegExp(HIDDEN.source, 'gu');
  function spelled(s) {
    return s.replace(ALL_HIDDEN, function (c) { return '<U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0') + '>'; });
  }
  function typing(t) { return /^(input|textarea|select)$/i.test(t.tagName) && !/^(radio|checkbox)$/.test(t.type || ''); }

  // Theme: kept in memory only.
  var themeButton = $('#theme'), modes = ['auto', 'light', 'dark'], mode = 0;
  function theme() {
    mode = (mode + 1) % 3;
    if (mode) { root.dataset.theme = modes[mode]; } else { delete root.dataset.theme; }
    themeButton.textContent = 'Theme: ' + modes[mode];
  }
  themeButton.onclick = theme;

  // Copy.
  function copy(text, button) {
    function done() {
      var old = button.textContent;
      button.textContent = 'Copied';
      say.textContent = 'Copied';
      setTimeout(function () { button.textContent = old; }, 1400);
    }
    function byHand() {
      var a = el('textarea');
      a.value = text;
      a.style.position = 'fixed';
      a.style.opacity = '0';
      document.body.append(a);
      a.select();
      try { document.execCommand('copy'); done(); } catch (e) { button.textContent = 'Select'; }
      a.remove();
      button.focus();
    }
    if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done, byHand); } else { byHand(); }
  }
  document.addEventListener('click', function (e) {
    var b = e.target.closest('button[data-c]');
    if (!b) { return; }
    if (b.dataset.c === 'cmd') { copy($('pre', b.parentNode).textContent, b); return; }
    var f = b.closest('.fd');
    copy('**' + $('h3', f).textContent + '** (' + f.dataset.rule + ')\n`' + f.dataset.key + '`\n\n' + $('.say', f).textContent.trim() +
      '\n\n```\n' + $('pre', f).textContent + '\n```\nFingerprint ' + f.id.slice(2), b);
  });

  // Filter: words are joined by and; is:fail restricts by status. Text is cached once, only `hidden` is touched.
  var q = $('#q'), qn = $('#qn'), items = null, map = $('.map'), cells = map ? $$('td:not(.z):not(.b)', map) : [];
  function load() {
    if (!items) {
      items = $$('[data-s]').map(function (e) { return {e: e, s: e.dataset.s, x: (e.textContent + ' ' + (e.dataset.key || '')).toLowerCase()}; });
    }
  }
  function filter() {
    load();
    var words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    var states = words.filter(function (w) { return w.indexOf('is:') === 0; }).map(function (w) { return w.slice(3); });
    var text = words.filter(function (w) { return w.indexOf('is:') !== 0; });
    function match(s, x) {
      return (!states.length || states.indexOf(s) >= 0) && text.every(function (w) { return x.indexOf(w) >= 0; });
    }
    var hit = 0, shown = new Map(), cut = 0;
    items.forEach(function (i) {
      var hide = !match(i.s, i.x);
      if (!hide) {
        hit++;
        if (words.length) {
          var n = (shown.get(i.e.parentNode) || 0) + 1;
          shown.set(i.e.parentNode, n);
          if (n > 300) { hide = true; cut++; }
        }
      }
      if (i.e.hidden !== hide) { i.e.hidden = hide; }
    });
    $$('details.g').forEach(function (g) {
      var any = $$('[data-s]', g).some(function (r) { return !r.hidden; });
      g.hidden = words.length > 0 && !any;
      if (words.length && any && !g.open) { g.open = true; g.dataset.auto = '1'; }
      else if (!words.length && g.dataset.auto) { g.open = false; delete g.dataset.auto; }
    });
    var lit = 0;
    cells.forEach(function (c) {
      var ok = !words.length || match(c.st || 'pass', (c.dataset.k || '').toLowerCase());
      c.classList.toggle('dim', !ok);
      if (ok) { lit++; }
    });
    qn.textContent = words.length ? num(hit) + ' of ' + num(items.length) + ' rows' +
      (cells.length ? ', ' + num(lit) + ' of ' + num(cells.length) + ' map cells' : '') + (cut ? ', first 300 of a group shown' : '') : '';
  }
  var timer = 0;
  q.oninput = function () { clearTimeout(timer); timer = setTimeout(filter, 90); };
  $$('a[data-q]').forEach(function (a) {
    a.addEventListener('click', function (e) {
      e.preventDefault();
      q.value = q.value === a.dataset.q ? '' : a.dataset.q;
      filter();
      if (q.value) { $('#checks').scrollIntoView(); }
    });
  });

  // Sort.
  $$('table.sort').forEach(function (t) {
    $$('thead th', t).forEach(function (h, i) {
      var b = el('button', '', h.textContent);
      b.type = 'button';
      h.textContent = '';
      h.append(b);
      h.setAttribute('aria-sort', 'none');
      b.onclick = function () {
        var up = h.getAttribute('aria-sort') !== 'ascending';
        $$('thead th', t).forEach(function (o) { o.setAttribute('aria-sort', 'none'); });
        h.setAttribute('aria-sort', up ? 'ascending' : 'descending');
        var body = t.tBodies[0], rows = $$('tr:not(.tot)', body), last = $$('tr.tot', body);
        function v(r) { var c = r.cells[i], d = c.dataset.v; return d != null ? +d : c.textContent.trim().toLowerCase(); }
        rows.sort(function (a, c) { var x = v(a), y = v(c); return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); });
        rows.concat(last).forEach(function (r) { body.append(r); });
      };
    });
  });

  // Map and drawer. A cell holds one tensor or several; the one that matters most is shown.
  var drawer = $('#drawer'), cur = null, grid = [], byFp = {}, bad = [];
  var WORDS = {p: 'pass', f: 'fail', w: 'warn', s: 'skip', e: 'error'}, RANK = {f: 0, e: 1, w: 2, s: 3, p: 4};
  function key(i) {
    var c = T.classes[T['class'][i]], l = T.layer[i], x = T.expert ? T.expert[i] : -1, out = c.pattern;
    if (l >= 0) { out = out.split('{}').join(l); }
    return x >= 0 ? out.split('{e}').join(x) : out;
  }
  function fp(i) { return T.fingerprint.substr(i * 12, 12); }
  if (map && T) {
    var bins = $$('thead th[data-b]', map).map(function (h) { return h.dataset.b.split('-').map(Number); }), rowOf = {};
    map.setAttribute('role', 'grid');
    $$('tbody tr', map).forEach(function (r, i) {
      grid.push($$('td:not(.z)', r));
      r.dataset.c.split(',').forEach(function (c) { rowOf[c] = i; });
    });
    for (var i = 0; i < T['class'].length; i++) {
      var row = rowOf[T['class'][i]], l = T.layer[i];
      if (row == null || l < 0) { continue; }
      for (var j = 0; j < bins.length && !(l >= bins[j][0] && l <= bins[j][bins[j].length - 1]); j++) { }
      var cell = grid[row][j];
      if (!cell || cell.className === 'b') { continue; }
      (cell.rows || (cell.rows = [])).push(i);
      byFp[fp(i)] = [cell, i];
    }
    grid.forEach(function (r, a) {
      r.forEach(function (c, b) {
        if (!c.rows) { return; }
        c.at = [a, b];
        c.best = c.rows.reduce(function (x, y) { return RANK[T.verdict[y]] < RANK[T.verdict[x]] ? y : x; });
        c.dataset.k = key(c.best);
        c.st = WORDS[T.verdict[c.best]];
        c.tabIndex = -1;
        c.setAttribute('aria-label', c.textContent + ', ' + c.dataset.k);
        var link = $('a', c);
        if (link) { link.tabIndex = -1; }
        if (c.st !== 'pass') { bad.push(c); }
      });
    });
    // The first of the gravest is where the map starts.
    cur = bad.reduce(function (x, y) { return !x || RANK[T.verdict[y.best]] < RANK[T.verdict[x.best]] ? y : x; }, null) || cells[0];
    if (cur) { cur.tabIndex = 0; }
  }
  function go(c, quiet) {
    cur.tabIndex = -1;
    cur = c;
    c.tabIndex = 0;
    if (!quiet) { c.focus(); }
    if (!drawer.hidden) { show(c); }
  }
  function state(word, text) { var s = el('span', 'st ' + word[0]); s.append(el('i', 'm ' + word[0]), text || word); return s; }
  function block(title, pairs) {
    var d = el('div'), l = el('dl', 'kv');
    d.append(el('h3', '', title));
    pairs.forEach(function (p) {
      if (p[1] == null || p[1] === '') { return; }
      var dd = el('dd');
      dd.append(typeof p[1] === 'string' ? spelled(p[1]) : p[1]);
      l.append(el('dt', '', p[0]), dd);
    });
    d.append(l);
    return d;
  }
  function list(names) { var s = el('span'); names.forEach(function (n, i) { if (i) { s.append(' + '); } s.append(name(n)); }); return s; }
  // For a shell; hidden characters as escapes, so that the command is exact and can be read.
  function quote(s) {
    if (!HIDDEN.test(s)) { return "'" + s.replace(/'/g, "'\\''") + "'"; }
    return "$'" + s.replace(/[\\']/g, '\\$&').replace(ALL_HIDDEN, function (c) {
      var h = c.codePointAt(0).toString(16);
      return c.length > 1 ? '\\U' + h.padStart(8, '0') : '\\u' + h.padStart(4, '0');
    }) + "'";
  }
  function show(c, which) {
    var i = which == null ? c.best : which, k = T.classes[T['class'][i]], id = key(i), word = WORDS[T.verdict[i]];
    var mine = D.findings.filter(function (f) { return f.key === id || (f.keys || []).indexOf(id) >= 0; });
    var head = $('#dk'), g = $('#dgr');
    head.textContent = '';
    head.append(name(id));
    g.textContent = '';
    var digest = T.digest.substr(i * 16, 16);
    g.append(block('Stored', [['dtype', k.dtype && name(k.dtype)], ['shape', '[' + k.shape.join(', ') + ']'], ['bytes', num(k.bytes)],
      ['file', T.files[T.file[i]] && name(T.files[T.file[i]])], ['as', k.stored && list(k.stored)],
      ['XXH3', digest[0] === '-' ? '' : el('span', 'k', digest)],
      ['also here', c.rows.length > 1 ? num(c.rows.length) + ' tensors in this cell' : '']]));
    var sub = k.native ? k.native.split('{}').join(T.layer[i]) : '';
    g.append(block('Placed', [['native', sub && name(sub)], ['dtype', k.native_dtype && name(k.native_dtype)],
      ['shape', k.native_shape ? '[' + k.native_shape.join(', ') + ']' : ''], ['route', k.route && name(k.route)], ['why', k.reason],
      ['ranks', k.placement]]));
    var d = el('div'), u = el('ul'), ok = [];
    d.append(el('h3', '', 'Checked'));
    function fault(f) {
      var li = el('li'), a = el('a', '', spelled(f.title));
      a.href = '#f-' + f.fingerprint;
      li.append(state(f.status === 'pass' ? 'pass' : f.status), ' ', el('span', 'k', f.rule), ' ', a);
      u.append(li);
    }
    mine.forEach(fault);
    (k.checks || []).forEach(function (c) { if (!mine.some(function (f) { return f.rule === c; })) { ok.push(c); } });
    if (ok.length) {
      var li = el('li');
      li.append(state('pass', ok.length + ' pass'), ' ', el('span', 'k mu', spelled(ok.join(', '))));
      u.append(li);
    }
    if (!u.childNodes.length) { u.append(el('li', 'mu', 'No check of its own; the checks of the whole checkpoint cover it.')); }
    d.append(u);
    var base = D.run.command_base || D.run.command;
    if (base) {
      var m = el('div', 'rp'), b = el('button', '', 'Copy');
      b.type = 'button';
      b.dataset.c = 'cmd';
      m.append(el('span', 'lab', 'Reproduce'), b, el('pre', '', base.split('\n').map(spelled).join('\n') + ' \\\n  --include ' + quote(id + '*')));
      g.lastChild.append(m);
    }
    g.append(d);
    $('#dst').textContent = '';
    $('#dst').append(state(word));
    drawer.hidden = false;
    root.classList.add('drawn');
    $$('[aria-selected=true]', map).forEach(function (x) { x.removeAttribute('aria-selected'); });
    c.setAttribute('aria-selected', 'true');
    history.replaceState(null, '', '#t-' + fp(i));
    say.textContent = word + ', ' + spelled(id);
  }
  function shut() {
    if (drawer.hidden) { return; }
    drawer.hidden = true;
    root.classList.remove('drawn');
    $$('[aria-selected=true]', map).forEach(function (x) { x.removeAttribute('aria-selected'); });
    history.replaceState(null, '', location.pathname + location.search);
    cur.focus();
  }
  function step(n) {
    if (!bad.length) { return; }
    var x = bad.indexOf(cur), at = x >= 0 ? (x + n + bad.length) % bad.length : n > 0 ? 0 : bad.length - 1;
    go(bad[at], !drawer.hidden);
    cur.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }
  $('#dx').onclick = shut;
  $('#dp').onclick = function () { step(-1); };
  $('#dn').onclick = function () { step(1); };
  if (map && cur) {
    map.addEventListener('click', function (e) {
      var c = e.target.closest('td:not(.z)');
      if (!c || !c.rows) { return; }
      e.preventDefault();
      go(c);
      show(c);
    });
    map.addEventListener('keydown', function (e) {
      var c = e.target.closest('td');
      if (!c || !c.at || e.ctrlKey || e.metaKey || e.altKey) { return; }
      var a = c.at[0], b = c.at[1], da = 0, db = 0, k = e.key;
      if (k === 'ArrowRight') { db = 1; } else if (k === 'ArrowLeft') { db = -1; } else if (k === 'ArrowDown') { da = 1; }
      else if (k === 'ArrowUp') { da = -1; } else if (k === 'Home') { b = -1; db = 1; } else if (k === 'End') { b = grid[a].length; db = -1; }
      else if (k === 'PageUp') { a = -1; da = 1; } else if (k === 'PageDown') { a = grid.length; da = -1; }
      else if (k === 'Enter' || k === ' ') { e.preventDefault(); show(c); return; } else { return; }
      e.preventDefault();
      // Blank cells are stepped over.
      do { a += da; b += db; } while (grid[a] && grid[a][b] && !grid[a][b].rows);
      if (grid[a] && grid[a][b]) { go(grid[a][b]); }
    });
    $$('.scroll[data-see]').forEach(function (s) {
      var left = s.dataset.see === 'cell' ? $('tbody th', s).offsetWidth : 0;
      var x = left ? cur.offsetLeft - left - (s.clientWidth - left) / 2 : s.dataset.see * s.scrollWidth - s.clientWidth / 2;
      if (x > 0) { s.scrollLeft = x; }
    });
  }

  // Links by fingerprint.
  function hash() {
    var h = location.hash;
    if (h.indexOf('#t-') === 0) {
      var c = byFp[h.slice(3)];
      if (c) { go(c[0], true); show(c[0], c[1]); c[0].scrollIntoView({block: 'center', inline: 'nearest'}); }
      return;
    }
    var t = h.length > 1 && document.getElementById(h.slice(1)), d = t && t.closest('details');
    while (d) { d.open = true; d = d.parentNode.closest('details'); }
  }
  addEventListener('hashchange', hash);
  hash();

  // Print opens everything.
  var opened = [];
  addEventListener('beforeprint', function () { opened = $$('details:not([open])'); opened.forEach(function (d) { d.open = true; }); });
  addEventListener('afterprint', function () { opened.forEach(function (d) { d.open = false; }); });

  // Download from the copy in the page, where the page holds the whole document.
  var raw = $('#raw');
  if (D.checks) {
    raw.addEventListener('click', function (e) {
      e.preventDefault();
      var a = el('a');
      a.href = URL.createObjectURL(new Blob([$('#data').textContent + '\n'], {type: 'application/json'}));
      a.download = 'report.json';
      a.click();
      setTimeout(function () { URL.revokeObjectURL(a.href); }, 4000);
    });
  }

  // Shortcuts; they can be switched off (WCAG 2.1.4).
  var keys = $('#keys'), cards = $$('.fd'), at = -1;
  function card(n) {
    if (!cards.length) { return; }
    at = (at + n + cards.length) % cards.length;
    cards[at].focus();
    cards[at].scrollIntoView({block: 'start'});
  }
  addEventListener('keydown', function (e) {
    if (e.key === 'Escape') {
      if (document.activeElement === q && q.value) { q.value = ''; filter(); } else { shut(); }
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || !keys.checked) { return; }
    var k = e.key;
    if (k === '/') { e.preventDefault(); q.focus(); q.select(); }
    else if (k === 'j') { card(1); }
    else if (k === 'k') { card(at < 0 ? 0 : -1); }
    else if (k === 'm' && cur) { $('#map').scrollIntoView(); cur.focus({preventScroll: true}); }
    else if (k === 'n' && cur) { step(1); }
    else if (k === 'p' && cur) { step(-1); }
    else if (k === 't') { theme(); }
    else if (k === 'c' && cards.length) { var b = $('button[data-c=cmd]', cards[Math.max(at, 0)]); if (b) { b.click(); } }
    else if (k === 'e') {
      var all = $$('main details'), closed = all.some(function (d) { return !d.open; });
      all.forEach(function (d) { d.open = closed; });
    } else if (k === '?') { var p = $('#help'); if (p.togglePopover) { p.togglePopover(); } }
  });

  // Where am I.
  if ('IntersectionObserver' in window) {
    var nav = {};
    $$('.bar nav a').forEach(function (a) { nav[a.hash.slice(1)] = a; });
    var seen = new IntersectionObserver(function (entries) {
      entries.forEach(function (x) {
        if (!x.isIntersecting) { return; }
        $$('.bar nav a.on').forEach(function (a) { a.classList.remove('on'); a.removeAttribute('aria-current'); });
        var a = nav[x.target.id];
        if (a) { a.classList.add('on'); a.setAttribute('aria-current', 'true'); }
      });
    }, {rootMargin: '-60px 0px -75% 0px'});
    $$('main section[id],.hero').forEach(function (s) { seen.observe(s); });
  }
})();
