// What the page does beyond htmx: keys, the end of the log, local times.
'use strict'
{
  const scroll = document.getElementById('scroll')
  const text = document.getElementById('text')
  let atEnd = true

  const toEnd = () => { scroll.scrollTop = scroll.scrollHeight }
  const localise = root => {
    for (const t of root.querySelectorAll('time[datetime]:not([title])')) {
      t.title = t.textContent
      t.textContent = new Date(t.dateTime).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })
    }
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

  localise(document)
  document.body.addEventListener('htmx:load', e => localise(e.detail.elt.parentElement || e.detail.elt))

  // What is open stays open when a list refreshes itself.
  let open = []
  document.body.addEventListener('htmx:beforeSwap', () => {
    open = [...document.querySelectorAll('details[open][id]')].map(d => d.id)
  })
  document.body.addEventListener('htmx:afterSwap', () => {
    for (const id of open) document.getElementById(id)?.setAttribute('open', '')
  })

  const form = document.getElementById('form')
  form?.addEventListener('click', e => {
    if (!e.target.closest('[data-close]')) return
    e.preventDefault()
    form.replaceChildren()
    text.focus()
  })
  document.body.addEventListener('htmx:oobAfterSwap', e => {
    if (e.detail.target === form) (form.querySelector('input:not([type=hidden]), select, textarea') || text).focus()
  })

  if (scroll && text) {
    toEnd()
    scroll.addEventListener('scroll', () => {
      atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80
    })
    document.body.addEventListener('htmx:sseMessage', () => {
      localise(scroll)
      if (atEnd) toEnd()
    })
    document.body.addEventListener('htmx:sseError', () => { document.body.classList.add('offline') })
    document.body.addEventListener('htmx:sseOpen', () => { document.body.classList.remove('offline') })

    text.addEventListener('input', grow)
    text.addEventListener('keydown', e => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault()
        if (text.value.trim()) text.form.requestSubmit()
      }
    })
    text.form.addEventListener('htmx:afterRequest', e => {
      if (!e.detail.successful) return
      document.getElementById('problem').replaceChildren()
      text.form.reset()
      grow()
      atEnd = true
      toEnd()
    })
    text.form.addEventListener('htmx:sendError', () => {
      problem('The bot cannot be reached; your message was not sent.')
    })
    for (const b of document.querySelectorAll('button.try')) {
      b.addEventListener('click', () => {
        text.value = b.dataset.text
        text.focus()
      })
    }
  }
}
