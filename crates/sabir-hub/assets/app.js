document.getElementById("app").textContent = "Sabir";
