// What the page does beyond htmx: keys, the end of the log, local times, copies.
'use strict'
{
  const scroll = document.getElementById('scroll')
  const text = document.getElementById('text')
  let atEnd = true

  const toEnd = () => { scroll.scrollTop = scroll.scrollHeight }
  const localise = root => {
    for (const t of root.querySelectorAll('time[datetime]:not([title])')) {
      t.title = new Date(t.dateTime).toLocaleString([], { dateStyle: 'full', timeStyle: 'short' })
      const style = t.closest('.line > header') ? {} : { dateStyle: 'medium' }
      t.textContent = new Date(t.dateTime).toLocaleString([], { ...style, timeStyle: 'short' })
    }
  }
  // The first message of each day has the day above it.
  const days = new Intl.DateTimeFormat([], { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' })
  const divideDays = () => {
    let last = ''
    for (const line of document.querySelectorAll('#log > .line:not([hidden])')) {
      const at = line.querySelector('header time')
      if (!at) continue
      const day = days.format(new Date(at.dateTime))
      if (day === last) delete line.dataset.day
      else line.dataset.day = last = day
    }
  }
  // Browsers offer a clipboard to pages over HTTPS and on the same machine alone.
  const offerCopies = () => {
    if (!navigator.clipboard) return
    for (const block of document.querySelectorAll('#log .bot .prose, #log .prose pre')) {
      const place = block.tagName === 'PRE' ? block : block.closest('.line').querySelector(':scope > header')
      if (place.querySelector(':scope > .copy')) continue
      const copy = document.createElement('button')
      copy.type = 'button'
      copy.className = 'quiet copy'
      copy.textContent = 'Copy'
      copy.addEventListener('click', async () => {
        block.classList.add('copying') // without its buttons
        const words = block.innerText.trim()
        block.classList.remove('copying')
        await navigator.clipboard.writeText(words)
        copy.textContent = 'Copied'
        setTimeout(() => { copy.textContent = 'Copy' }, 2000)
      })
      place.append(copy)
    }
  }
  const complete = root => {
    localise(root)
    divideDays()
    offerCopies()
  }
  const grow = () => {
    text.rows = Math.min(10, Math.max(1, text.value.split('\n').length))
  }
  const problem = words => {
    const p = document.createElement('p')
    p.className = 'problem'
    p.textContent = words
    document.getElementById('problem').replaceChildren(p)
  }

  // Rooms with lines that this browser has not shown yet are marked, and counted in the title of the page.
  const markUnread = () => {
    const links = [...document.querySelectorAll('[data-newest]')]
    if (!links.length) return
    const isFirst = !localStorage.seen
    const seen = JSON.parse(localStorage.seen || '{}')
    let unread = 0
    for (const link of links) {
      const { room, newest } = link.dataset
      const isCurrent = link.hasAttribute('aria-current')
      // In a room that was deleted the numbers begin again.
      if (isFirst || isCurrent && !document.hidden || seen[room] > +newest) seen[room] = +newest
      const isNew = +newest > (seen[room] || 0)
      link.querySelector('.new').hidden = !isNew
      if (isNew) unread++
      if (isCurrent) {
        document.querySelector('h1').textContent = link.firstChild.data
        document.title = `${link.firstChild.data} · ravenbot`
      }
    }
    localStorage.seen = JSON.stringify(seen)
    if (unread) document.title = `(${unread}) ${document.title.replace(/^\(\d+\) /, '')}`
  }
  markUnread()
  document.addEventListener('visibilitychange', markUnread)

  complete(document)
  document.body.addEventListener('htmx:load', e => complete(e.detail.elt.parentElement || e.detail.elt))

  // What is open stays open when a list refreshes itself.
  let open = []
  document.body.addEventListener('htmx:beforeSwap', () => {
    open = [...document.querySelectorAll('details[open][id]')].map(d => d.id)
  })
  document.body.addEventListener('htmx:afterSwap', () => {
    for (const id of open) document.getElementById(id)?.setAttribute('open', '')
    markUnread()
  })

  const form = document.getElementById('form')
  const close = e => {
    e.preventDefault()
    form.replaceChildren()
    text.focus()
  }
  form?.addEventListener('click', e => { if (e.target.closest('[data-close]')) close(e) })
  form?.addEventListener('keydown', e => {
    if (e.key === 'Escape' && !e.isComposing) close(e)
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) e.target.form?.requestSubmit()
  })
  document.body.addEventListener('htmx:oobAfterSwap', e => {
    if (e.detail.target !== form) return
    const field = form.querySelector('input:not([type=hidden]), select, textarea') || form.querySelector('button') || text
    field.focus()
    if (field.tagName === 'TEXTAREA') field.setSelectionRange(field.value.length, field.value.length)
  })

  if (scroll && text) {
    atEnd = !document.querySelector('#log :target')
    if (atEnd) toEnd()
    scroll.addEventListener('scroll', () => {
      atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80
    })
    // Pictures that come late move the end.
    scroll.addEventListener('load', () => { if (atEnd) toEnd() }, true)
    document.body.addEventListener('htmx:sseMessage', e => {
      complete(scroll)
      const current = document.querySelector('[data-newest][aria-current]')
      current.dataset.newest = Math.max(current.dataset.newest, e.detail.lastEventId)
      markUnread()
      if (atEnd) toEnd()
    })
    const connection = document.getElementById('connection')
    document.body.addEventListener('htmx:sseError', () => { connection.textContent = 'Not connected to the bot; trying again…' })
    document.body.addEventListener('htmx:sseOpen', () => { connection.textContent = '' })

    // The files to be sent: chosen, dropped or pasted. Each can be taken out again.
    const files = document.getElementById('files')
    const chosen = document.getElementById('chosen')
    const choose = list => {
      const all = new DataTransfer()
      for (const f of list) all.items.add(f)
      files.files = all.files
      showChosen()
    }
    const showChosen = () => {
      chosen.replaceChildren(...[...files.files].map((f, i) => {
        const item = document.createElement('li')
        item.textContent = f.name
        const out = document.createElement('button')
        out.type = 'button'
        out.textContent = '×'
        out.setAttribute('aria-label', 'Leave out ' + f.name)
        out.addEventListener('click', () => choose([...files.files].filter((_, n) => n !== i)))
        item.append(out)
        return item
      }))
    }
    const add = list => {
      if (!list.length) return false
      choose([...files.files, ...list])
      text.focus()
      return true
    }
    files.addEventListener('change', showChosen)
    text.addEventListener('paste', e => {
      if (add(e.clipboardData.files)) e.preventDefault()
    })
    for (const kind of ['dragenter', 'dragover']) {
      document.body.addEventListener(kind, e => {
        if (!e.dataTransfer.types.includes('Files')) return
        e.preventDefault()
        document.body.classList.add('dropping')
      })
    }
    document.body.addEventListener('dragleave', e => {
      if (!e.relatedTarget) document.body.classList.remove('dropping')
    })
    document.body.addEventListener('drop', e => {
      document.body.classList.remove('dropping')
      if (add(e.dataTransfer.files)) e.preventDefault()
    })

    // The arrows bring back what was said before, as long as nothing else is written.
    let back = 0
    let recalled = ''
    const recall = lines => {
      const said = [...document.querySelectorAll('#log [data-text]')].map(s => s.dataset.text)
      back = Math.min(Math.max(lines, 0), said.length)
      recalled = back ? said[said.length - back] : ''
      text.value = recalled
      grow()
    }
    text.addEventListener('input', () => {
      back = 0
      recalled = ''
      grow()
    })
    text.addEventListener('keydown', e => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[e.key]
      if (step && text.value === recalled && back + step >= 0) {
        e.preventDefault()
        recall(back + step)
        return
      }
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault()
        if (text.value.trim() || files.files.length) text.form.requestSubmit()
      }
    })
    // What is sent again because no answer came, by this page or on its way, is taken once; what was changed is another
    // message.
    let token = ''
    let sent = ''
    text.form.addEventListener('htmx:configRequest', e => {
      const now = JSON.stringify([text.value, ...[...files.files].map(f => [f.name, f.size, f.lastModified])])
      if (!token || now !== sent) token = [...crypto.getRandomValues(new Uint8Array(16))].map(n => n.toString(36)).join('')
      sent = now
      e.detail.headers['Idempotency-Key'] = token
    })
    text.form.addEventListener('htmx:afterRequest', e => {
      if (!e.detail.successful) return
      token = ''
      document.getElementById('problem').replaceChildren()
      text.form.reset()
      showChosen()
      recall(0)
      atEnd = true
      toEnd()
      htmx.trigger(document.body, 'said') // the list of rooms has another order
    })
    text.form.addEventListener('htmx:beforeSwap', e => {
      // A request that is refused before the chat sees it, because it is too large, is answered in JSON.
      if (!e.detail.xhr.getResponseHeader('Content-Type')?.startsWith('application/json')) return
      e.detail.shouldSwap = false
      const { message, hint } = JSON.parse(e.detail.xhr.responseText).error
      const what = e.detail.xhr.status < 500 ? 'Your message was not sent' : 'Your message was perhaps not sent'
      problem(`${what}: ${message} (${hint}).`)
    })
    text.form.addEventListener('htmx:sendError', () => {
      problem('The bot cannot be reached; your message was perhaps not sent. Send it again: it is taken once.')
    })
    for (const b of document.querySelectorAll('button.try')) {
      b.addEventListener('click', () => {
        text.value = b.dataset.text
        text.focus()
      })
    }
  }
}
