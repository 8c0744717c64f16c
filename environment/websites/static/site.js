// Menus open on click, dialogs ask before something is lost.  Shared by all sites.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-menu]");
  for (const menu of document.querySelectorAll(".menu-items")) {
    const mine = opener && menu.id === opener.dataset.menu;
    menu.hidden = !(mine && menu.hidden);
    const button = document.querySelector(`[data-menu="${menu.id}"]`);
    if (button) button.setAttribute("aria-expanded", String(!menu.hidden));
  }
  const asker = event.target.closest("[data-dialog]");
  if (asker) document.getElementById(asker.dataset.dialog).showModal();
  const closer = event.target.closest("[data-close]");
  if (closer) closer.closest("dialog").close();
});
